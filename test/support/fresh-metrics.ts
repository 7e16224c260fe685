import { register } from "prom-client";

// Set up for each test file: those before it in this process leave no metrics.
register.resetMetrics();
register.setDefaultLabels({});
