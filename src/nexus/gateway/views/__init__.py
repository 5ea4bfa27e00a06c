"""What pages and JSON endpoints show: typed reads over the ledgers, a page at a time, and no writes."""
