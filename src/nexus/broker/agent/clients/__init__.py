"""The clients of providers, one file for each way of speaking. A file is imported when it is first needed."""
