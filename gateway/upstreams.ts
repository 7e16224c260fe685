import type { DescService } from "@bufbuild/protobuf";
import { CatalogService } from "../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { AccountService, SessionService } from "../proto/gen/berth/identity/v1/identity_pb.ts";
import { InvitationService } from "../proto/gen/berth/identity/v1/invitations_pb.ts";
import { PasswordService } from "../proto/gen/berth/identity/v1/passwords_pb.ts";
import { VariablesService } from "../proto/gen/berth/variables/v1/variables_pb.ts";

/** The processes behind the gateway; each owns the proto package of its name. */
export type Upstream = "identity" | "variables" | "deployer";

/** Every service whose annotated methods become REST routes, by the process that answers it. */
export const published: { upstream: Upstream; service: DescService }[] = [
  { upstream: "identity", service: AccountService },
  { upstream: "identity", service: SessionService },
  { upstream: "identity", service: InvitationService },
  { upstream: "identity", service: PasswordService },
  { upstream: "variables", service: VariablesService },
  { upstream: "deployer", service: CatalogService },
  { upstream: "deployer", service: DeploymentService },
];
