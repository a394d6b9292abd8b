"""Settings of a small Django project."""

from __future__ import annotations

SECRET_KEY = "for tests"
INSTALLED_APPS = ["store"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "production"}}
