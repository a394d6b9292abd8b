-- fragment: names the role with whose rights the triggers of a published table run when a Subscriber changes it.
-- called by: rendered into the sync procedures of tables with triggers
-- tables:    none
-- holes:     article
            when insufficient_privilege then
                raise exception using
                    errcode = 'insufficient_privilege',
                    message = sqlerrm,
                    hint = format('When a Subscriber changes %s, its triggers run with the rights of role %I: '
                                  'declare their functions SECURITY DEFINER, or grant that role what they need.',
                                  {article}, current_user);
