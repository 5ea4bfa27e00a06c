"""Many homes in one process: `registry` knows them, `pool` opens and closes them, `host` serves them."""
