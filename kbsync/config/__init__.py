"""What the user set: where things lie (`locations`), what is set (`settings`) and how the file is edited (`file`)."""
