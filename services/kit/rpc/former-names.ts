import { type DescService, getOption } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { formerly } from "../../../proto/gen/berth/options/v1/options_pb.ts";

/** Returns the present path of each method by the one it had under its service's former name. */
export function presentPathsByFormer(services: DescService[]): Map<string, string> {
  return new Map(
    services.flatMap((service) => {
      const former = getOption(service, formerly);
      const paths = service.methods.map(({ name }) => [`/${former}/${name}`, `/${service.typeName}/${name}`]);
      return former === "" ? [] : (paths as [string, string][]);
    }),
  );
}

/** Calls a replica that does not know a service's name yet by the former one. */
export const tryFormerName: Interceptor = (next) => async (req) => {
  const former = getOption(req.service, formerly);
  try {
    return await next(req);
  } catch (error) {
    if (former === "" || ConnectError.from(error).code !== Code.Unimplemented) throw error;
    return next({ ...req, url: req.url.replace(`/${req.service.typeName}/`, `/${former}/`) });
  }
};
