"""Pages of runs: HTML that opens offline, drawn from a :class:`~quantgraph.report.run_view.RunView`."""
