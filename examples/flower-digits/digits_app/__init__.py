"""Handwritten digits with Flower and pausefl."""
