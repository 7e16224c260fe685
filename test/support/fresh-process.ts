import { register } from "prom-client";
import { afterAll } from "vitest";
import { releasePorts } from "../../services/kit/process/free-port.ts";

// Set up for each test file: those before it in this process leave no metrics, and it leaves no reserved ports.
register.resetMetrics();
register.setDefaultLabels({});
afterAll(releasePorts);
