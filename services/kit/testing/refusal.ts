import { inspect } from "node:util";
import { ConnectError } from "@connectrpc/connect";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";

/** Returns what a refused call answered. Throws when it was not refused. */
export async function refusal(call: Promise<unknown>) {
  const error = await call.then(
    (answer) => new Error(`was not refused, but answered ${inspect(answer)}`),
    (thrown: unknown) => thrown,
  );
  const problem = error instanceof ConnectError ? error.findDetails(ProblemSchema)[0] : undefined;
  if (!problem) throw error;
  const { status, code, message, details, context } = problem;
  const [reasons, paths] = [details.map((detail) => detail.reason), details.map((detail) => detail.path)];
  return { status, code, message, details, reasons, paths, context };
}

/** Returns status, code and reasons of a refusal, as in "422 validation_failed invalid_name". */
export async function refused(call: Promise<unknown>): Promise<string> {
  const { status, code, reasons } = await refusal(call);
  return [status, code, ...reasons].join(" ");
}
