import {
  BillingService,
  ComputeUsageSchema,
  ServiceUsageSchema,
} from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { partOf } from "../shape.ts";
import { argumentsSchema, oneStep, type Tool } from "./tool.ts";

const getUsage = oneStep({
  name: "get_usage",
  title: "Usage",
  description: "What compute costs in this period, and its projection.",
  does: "reads",
  ofAccount: true,
  calls: [BillingService.method.getComputeUsage],
  input: argumentsSchema({}),
  output: partOf(
    ComputeUsageSchema,
    ...["periodStart", "periodEnd", "accruedUsd", "netUsd", "projectedNetUsd"],
    ["services", partOf(ServiceUsageSchema, "serviceName", "projectName", "type", "accruedUsd")],
  ),
  async run(_input, { call, at }) {
    const accountId = await at.account();
    return { data: await call<object>(BillingService.method.getComputeUsage, { accountId }) };
  },
});

export const accountTools: Tool[] = [getUsage];
