"""Create the table with one row."""

from __future__ import annotations

from django.db import migrations, models


def fill(apps, _):
    """Insert an account."""
    apps.get_model("store", "Account").objects.create(balance=100)


class Migration(migrations.Migration):
    """The first migration."""

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
