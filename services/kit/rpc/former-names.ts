import { type DescService, getOption } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { formerly } from "../../../proto/gen/berth/options/v1/options_pb.ts";

/** Returns the current path of each method by its path under its service's former name. */
export function currentPathsByFormer(services: DescService[]): Map<string, string> {
  return new Map(
    services.flatMap((service) => {
      const former = getOption(service, formerly);
      const paths = service.methods.map(({ name }) => [`/${former}/${name}`, `/${service.typeName}/${name}`]);
      return former === "" ? [] : (paths as [string, string][]);
    }),
  );
}

/** Repeats a call under the former name of a service when the replica does not know the current one yet. */
export const tryFormerName: Interceptor = (next) => async (req) => {
  const former = getOption(req.service, formerly);
  try {
    return await next(req);
  } catch (error) {
    if (former === "" || ConnectError.from(error).code !== Code.Unimplemented) throw error;
    return next({ ...req, url: req.url.replace(`/${req.service.typeName}/`, `/${former}/`) });
  }
};
