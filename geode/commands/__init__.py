"""One module per subcommand of `geode`, each with `main(argv) -> exit code`."""
