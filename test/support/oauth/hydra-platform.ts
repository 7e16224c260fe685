import { type HydraServer, startHydra } from "../servers/hydra-server.ts";
import { type Platform, startWorld } from "../world.ts";

/** Starts the platform with an Ory Hydra of its own as the provider of OAuth. */
export async function openHydraPlatform(program: string): Promise<Platform> {
  let hydra: Promise<HydraServer> | undefined;
  const world = await startWorld({}, async (_service, env) => {
    hydra ??= startHydra(program, { origin: env.PUBLIC_ORIGIN! });
    const { adminUrl, publicUrl } = await hydra;
    return { ...env, IDENTITY_PROVIDER: "hydra", HYDRA_ADMIN_URL: adminUrl, OAUTH_URL: publicUrl };
  });
  return {
    ...world,
    async stop() {
      await world.stop();
      await (await hydra)?.stop();
    },
  };
}
