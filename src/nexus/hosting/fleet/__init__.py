"""Several hosts that share one Postgres: who is alive, who owns which home, and since when."""
