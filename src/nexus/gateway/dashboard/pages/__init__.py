"""One module for each part of the dashboard: what is shown, and what can be done there."""
