"""Tests of trainlens; the folders mirror the package."""
