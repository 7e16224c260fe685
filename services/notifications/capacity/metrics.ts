import { Gauge } from "prom-client";

/** How much of the disk and the memory of each node is in use, as this process measured last. */
export const used = new Gauge<"node" | "resource">({
  name: "berth_node_used_ratio",
  help: "How much of the fullest watched disk of the node, and of its memory, is in use, from 0 to 1",
  labelNames: ["node", "resource"],
});
