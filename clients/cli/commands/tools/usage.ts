import { command } from "../../command.ts";
import { printTable } from "../../terminal/table.ts";

const usage = command({
  name: "usage",
  summary: "Show what services cost in this period",
  about: ["For owners of the account. Amounts are in USD."],
  examples: [["usage", "by service, and projected to the end of the period"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const { accountId } = await ctx.at.account();
    const found = await (await ctx.berth()).usage.get({ accountId }, { signal });
    if (io.json) return io.outJson(found);
    const usd = (amount: number) => `$${amount.toFixed(2)}`;
    const rows = found.services.map((each) => [
      each.projectName,
      each.serviceName,
      each.type,
      usd(each.accruedUsd),
      usd(each.allowanceAppliedUsd),
    ]);
    printTable(io, ["PROJECT", "SERVICE", "TYPE", "ACCRUED", "ALLOWANCE"], rows);
    io.out("");
    io.out(
      `Accrued ${usd(found.accruedUsd)}, to pay ${usd(found.netUsd)}, projected ${usd(found.projectedNetUsd)}`,
    );
    io.out(`Period ${found.periodStart.slice(0, 10)} to ${found.periodEnd.slice(0, 10)}`);
    return undefined;
  },
});

export const commands = [usage];
