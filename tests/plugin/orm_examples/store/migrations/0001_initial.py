"""The table, and one row."""

from __future__ import annotations

from django.db import migrations, models


def fill(apps, _):
    """An account."""
    apps.get_model("store", "Account").objects.create(balance=100)


class Migration(migrations.Migration):
    """The first."""

    operations = [  # noqa: RUF012
        migrations.CreateModel(
            "Account",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("balance", models.IntegerField()),
            ],
        ),
        migrations.RunPython(fill),
    ]
