"""Django's settings. What an installation may change comes from its environment."""

from __future__ import annotations

import os

from cadensend.databases import database_from

SECRET_KEY = os.environ.get("CADENSEND_SECRET_KEY", "")
INSTALLED_APPS = ["cadensend.accounts", "cadensend.delivery"]
DATABASES = {"default": database_from(os.environ.get("CADENSEND_DATABASE", "sqlite:cadensend.db"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
