import { builderContract } from "../../../../test/ports/builder.ts";
import { openCluster } from "./cluster-harness.ts";

builderContract("job", () => openCluster());
