import { runtimeContract } from "../../../test/ports/runtime.ts";
import { openCluster } from "./kubernetes/testing.ts";

runtimeContract("kubernetes", () => openCluster("contract"));
