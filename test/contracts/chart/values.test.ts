import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { V1Deployment, V1NetworkPolicy } from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import { programs } from "../../../deploy/local/programs/programs.ts";
import { kubernetesAddonFields, patchImages } from "../../../services/deployer/addons/kubernetes/config.ts";
import { kubernetesFields } from "../../../services/deployer/config.ts";
import { isPublicAddress } from "../../../services/kit/network/public-address.ts";
import { planFields } from "../../../services/kit/plans.ts";
import { SERVICE_CONNECTIONS } from "../../../services/kit/postgres/connection.ts";
import { type Field, readConfig } from "../../../services/kit/process/config.ts";
import { fields as notificationFields } from "../../../services/notifications/config.ts";
import {
  chartFolder,
  ciValues,
  configOf,
  helm,
  helmProgram,
  type Manifest,
  ofKind,
  render,
} from "./render.ts";

type Fields = Record<string, Field<unknown>>;

if (!helmProgram) console.log("The chart is not tested: there is no helm on the PATH, in HELM, or built.");

describe.skipIf(!helmProgram)("the values of the chart", () => {
  let bundled: Manifest[];
  let external: Manifest[];

  beforeAll(async () => {
    [bundled, external] = await Promise.all([render("bundled"), render("external")]);
  });

  test("the console is turned off for the gateway, and for the mails that would lead to it", async () => {
    const without = await render("bundled", { "console.enabled": "false" });
    for (const [manifests, value] of [
      [bundled, "on"],
      [without, "off"],
    ] as const)
      for (const name of ["gateway", "notifications"])
        expect([name, configOf(manifests, `berth-${name}`).CONSOLE]).toEqual([name, value]);
  });

  test("the node's disk is watched by notifications where it is mounted, under the node's name, unless turned off", async () => {
    const { watchedFolders, diskWarnPercent, diskUrgentPercent, memoryWarnPercent } = notificationFields;
    const read = (manifests: Manifest[]) =>
      readConfig(configOf(manifests, "berth-notifications"), {
        ...{ watchedFolders, diskWarnPercent, diskUrgentPercent, memoryWarnPercent },
      });
    expect(read(bundled)).toEqual({
      ...{ watchedFolders: ["/tmp"], diskWarnPercent: 85, diskUrgentPercent: 95, memoryWarnPercent: 10 },
    });
    const pods = ofKind<V1Deployment>(bundled, "Deployment").map(({ metadata, spec }) => ({
      name: metadata!.name,
      pod: spec!.template.spec!,
    }));
    const named = pods.filter(({ pod }) => pod.containers[0]!.env?.some(({ name }) => name === "NODE_NAME"));
    expect(named.map(({ name }) => name)).toEqual(["berth-notifications"]);
    const { containers, volumes } = named[0]!.pod;
    const mount = containers[0]!.volumeMounts!.find(({ mountPath }) => mountPath === "/tmp")!;
    // In memory it would not be the node's disk.
    expect(volumes!.find(({ name }) => name === mount.name)!.emptyDir!.medium).toBeUndefined();
    const off = await render("bundled", { "capacityNotices.enabled": "false" });
    expect(read(off).watchedFolders).toEqual([]);
    const other = await render("bundled", {
      capacityNotices: '{"diskWarnPercent": 70, "memoryWarnPercent": 0}',
    });
    expect(read(other)).toMatchObject({ diskWarnPercent: 70, diskUrgentPercent: 95, memoryWarnPercent: 0 });
  });

  test("the console may upload to where clients reach the object store", async () => {
    const url = "https://objects.example.com";
    const exposed = await render("bundled", { "objectStore.publicUrl": JSON.stringify(url) });
    expect(configOf(exposed, "berth-gateway").UPLOAD_URL).toBe(url);
    const inside = await render("bundled", { "objectStore.publicUrl": '""' });
    expect(configOf(inside, "berth-gateway").UPLOAD_URL).toBeUndefined();
  });

  test("helm lint passes for every set of example values", async () => {
    for (const values of ["bundled", "external"])
      expect(await helm("lint", chartFolder, "--kube-version", "1.36.0", "-f", ciValues(values))).toContain(
        "0 chart(s) failed",
      );
  });

  test("its version of the app is the project's", async () => {
    const { version } = JSON.parse(await readFile(join(chartFolder, "../../package.json"), "utf8"));
    expect(await readFile(join(chartFolder, "Chart.yaml"), "utf8")).toContain(`appVersion: ${version}\n`);
  });

  test("it starts the processes that npm start starts", () => {
    const started = ofKind<V1Deployment>(bundled, "Deployment").map((one) => one.metadata!.name);
    expect(started.sort()).toEqual(programs.map(({ name }) => `berth-${name}`).sort());
  });

  test("every process accepts the environment that it gets", async () => {
    const key = Buffer.alloc(32).toString("base64");
    const secret: Record<string, string> = {
      INTERNAL_KEYS: key,
      SECRET_KEYS: key,
      ENCRYPTION_KEYS: `k1:${key}`,
      S3_ACCESS_KEY: "a",
      S3_SECRET_KEY: "s",
      STRIPE_SECRET_KEY: "rk_live_0",
      STRIPE_WEBHOOK_SECRETS: "whsec_0",
    };
    const fieldsOf = new Map<string, Fields>();
    for (const { name, folder } of programs)
      fieldsOf.set(name, (await import(join(chartFolder, "../..", folder, "config.ts"))).fields);
    fieldsOf.set("deployer", kubernetesFields);
    for (const manifests of [bundled, external])
      for (const deployment of ofKind<V1Deployment>(manifests, "Deployment")) {
        const { name, env, envFrom } = deployment.spec!.template.spec!.containers[0]!;
        const environment = { ...configOf(manifests, envFrom![0]!.configMapRef!.name!) };
        for (const { name, value } of env!) environment[name] = value ?? secret[name] ?? "";
        expect(readConfig(environment, fieldsOf.get(name)!)).toMatchObject({ port: 8080 });
      }
  });

  test("every setting of OAuth reaches a process that reads it", async () => {
    const config = async (manifests: Manifest[], name: "gateway" | "identity") => {
      const { folder } = programs.find((program) => program.name === name)!;
      const { fields } = await import(join(chartFolder, "../..", folder, "config.ts"));
      const given = configOf(manifests, `berth-${name}`);
      const known = new Set(Object.values(fields as Fields).map((field) => field.name));
      const wanted = Object.entries(given).filter(([key]) =>
        /OAUTH|HYDRA|IDENTITY_PROVIDER|^API_|^RATE_/.test(key),
      );
      expect(wanted.filter(([key]) => !known.has(key))).toEqual([]);
      const shown = wanted.filter(([key]) => !key.startsWith("RATE_"));
      return Object.fromEntries([...shown, ["PUBLIC_ORIGIN", given.PUBLIC_ORIGIN]]);
    };
    const everywhere = { API_PREFIX: "/v1", PUBLIC_ORIGIN: "https://berth.example.com" };
    expect(await config(bundled, "gateway")).toEqual({ ...everywhere, OAUTH_CLIENT_ID_METADATA: "on" });
    expect(await config(bundled, "identity")).toEqual({
      ...everywhere,
      IDENTITY_PROVIDER: "embedded",
      OAUTH_ACCESS_TOKEN_SECONDS: "900",
      OAUTH_ALLOW_CUSTOM_SCHEMES: "on",
      OAUTH_CLIENT_ID_METADATA: "on",
      OAUTH_REDIRECT_HOSTS: "",
    });
    const resource = { OAUTH_RESOURCE: "https://berth.example.com/api" };
    expect(await config(external, "gateway")).toEqual({
      ...everywhere,
      ...resource,
      OAUTH_CLIENT_ID_METADATA: "off",
      OAUTH_URL: "http://hydra-public.hydra:4444",
    });
    expect(await config(external, "identity")).toEqual({
      ...everywhere,
      ...resource,
      IDENTITY_PROVIDER: "hydra",
      HYDRA_ADMIN_URL: "http://hydra-admin.hydra:4445",
      OAUTH_ACCESS_TOKEN_SECONDS: "900",
      OAUTH_ALLOW_CUSTOM_SCHEMES: "off",
      OAUTH_CLIENT_ID_METADATA: "off",
      OAUTH_REDIRECT_HOSTS: "app.example.com",
    });
  });

  test("every process that enforces plans gets the same default plan, which depends on the payment provider", async () => {
    const plans = (manifests: Manifest[]) =>
      ["identity", "deployer", "billing"].map((name) => {
        const { DEFAULT_TIER, PLAN_QUOTAS } = configOf(manifests, `berth-${name}`);
        return `${DEFAULT_TIER} ${PLAN_QUOTAS}`;
      });
    expect(plans(bundled)).toEqual(Array(3).fill("enterprise on"));
    expect(plans(external)).toEqual(Array(3).fill("free off"));
    const chosen = await render("external", {
      "billing.defaultTier": '"team"',
      "billing.installation": '"staging"',
      "billing.tax": "true",
    });
    expect(plans(chosen)).toEqual(Array(3).fill("team off"));
    const { STRIPE_INSTALLATION, STRIPE_TAX } = configOf(chosen, "berth-billing");
    expect([STRIPE_INSTALLATION, STRIPE_TAX]).toEqual(["staging", "on"]);
  });

  test("settings of the bundled PostgreSQL reach it as they are, with quotes and all", async () => {
    const settings = { archive_command: `test ! -f '/x y' && cp "%p" /x`, log_line_prefix: "%m [%p] " };
    const set = { "database.server.settings": JSON.stringify(settings) };
    const script = configOf(await render("bundled", set), "berth-postgres")["start.sh"]!;
    const [, options] = /exec postgres (.*)$/s.exec(script)!;
    const given = execFileSync("sh", ["-c", `printf '%s\\n' ${options}`], { encoding: "utf8" }).split("\n");
    for (const [name, value] of Object.entries(settings)) expect(given).toContain(`${name}=${value}`);
  });

  test("the bundled PostgreSQL admits every connection that the processes open while all of them are rolled", async () => {
    const admitted = async (set: Record<string, string> = {}) => {
      const files = configOf(await render("bundled", set), "berth-postgres");
      return Number(/-c max_connections='(\d+)'/.exec(files["start.sh"]!)![1]);
    };
    /** With `pods` of each, and as many that end; and those of operations. */
    const opened = async (pods: (at: number) => number) => {
      const each = programs.map(async ({ folder }, at) => {
        const config = await import(join(chartFolder, "../..", folder, "config.ts"));
        return 2 * pods(at) * (config.connections ?? SERVICE_CONNECTIONS);
      });
      return (await Promise.all(each)).reduce((one, other) => one + other) + 30;
    };
    expect(await admitted()).toBe(await opened(() => 2));
    // Other factors for each, so that no two numbers can be confused.
    const replicas = programs.map(({ name }, at) => [`processes.${name}.replicas`, String(7 ** at)]);
    expect(await admitted(Object.fromEntries(replicas))).toBe(await opened((at) => 7 ** at));
    const scaled = { "defaults.autoscaling": '{"enabled":true,"maxReplicas":5}' };
    expect(await admitted(scaled)).toBe(await opened((at) => (programs[at]?.name === "deployer" ? 2 : 5)));
    expect(await admitted({ "database.server.settings.max_connections": '"5000"' })).toBe(5000);
  });

  test("each service can have a certificate of its own", async () => {
    const given = await render("bundled", { "apps.ingress.tlsSecret": '"{service}-tls"' });
    expect(configOf(given, "berth-deployer").INGRESS_TLS_SECRET).toBe("{service}-tls");
  });

  test("images come from anywhere unless registries are named, and apps send no mail unless their ports are opened", async () => {
    const settings = async (set: Record<string, string>) => {
      const given = configOf(await render("bundled", set), "berth-deployer");
      const { allowedRegistries, appsClosedPorts } = kubernetesFields;
      return [
        allowedRegistries.parse(given.ALLOWED_REGISTRIES),
        appsClosedPorts.parse(given.APPS_CLOSED_PORTS),
      ];
    };
    expect(await settings({})).toEqual([[], [25, 465, 587]]);
    const opened = {
      "apps.closedPorts": "[]",
      "apps.allowedRegistries": '["docker.io/library","registry.example.com:5000"]',
    };
    expect(await settings(opened)).toEqual([["docker.io/library", "registry.example.com:5000"], []]);
  });

  test("whoever may scrape the platform may scrape apps that ask for it", async () => {
    const peers = async (set: Record<string, string>) => {
      const given = configOf(await render("bundled", set), "berth-deployer");
      return kubernetesFields.metricsPeers.parse(given.METRICS_PEERS);
    };
    const from = [{ namespaceSelector: { matchLabels: { team: "monitoring" } } }];
    expect(await peers({})).toEqual([]);
    expect(await peers({ "metrics.from": JSON.stringify(from) })).toEqual(from);
    expect(() => kubernetesFields.metricsPeers.parse("[{}]")).toThrow("must be");
  });

  test("accounts may have logins for registries unless the operator turns that off", async () => {
    const setting = async (set: Record<string, string>) => {
      const given = configOf(await render("bundled", set), "berth-deployer");
      return kubernetesFields.accountRegistries.parse(given.ACCOUNT_REGISTRIES);
    };
    expect(await setting({})).toBe("on");
    expect(await setting({ "apps.accountRegistries": "false" })).toBe("off");
  });

  test("a plan may open ports that the installation closes, and opens none unless the operator says so", async () => {
    const settings = async (set: Record<string, string>) =>
      readConfig(configOf(await render("bundled", set), "berth-deployer"), planFields).planOpenPorts;
    expect(await settings({})).toEqual({});
    expect(await settings({ "billing.openPorts": '{"team":[465,587]}' })).toEqual({ team: [465, 587] });
    for (const wrong of ["[]", '{"gold":[587]}', '{"team":[0]}', '{"team":587}'])
      expect(() => readConfig({ PLAN_OPEN_PORTS: wrong }, planFields)).toThrow("by plan (free, pro");
  });

  test("a plan may have a largest size, for every process that enforces plans", async () => {
    const settings = async (set: Record<string, string>, name: string) =>
      readConfig(configOf(await render("bundled", set), name), planFields).planSizes;
    expect(await settings({}, "berth-deployer")).toEqual({});
    for (const name of ["berth-deployer", "berth-identity", "berth-billing"])
      expect(await settings({ "billing.largestSizes": '{"pro":"medium"}' }, name)).toEqual({ pro: "medium" });
    for (const wrong of ["[]", '{"gold":"nano"}', '{"team":"huge"}', '{"team":1}'])
      expect(() => readConfig({ PLAN_SIZES: wrong }, planFields)).toThrow("by plan (free, pro");
  });

  test("a plan may keep the last backup of a deleted addon for other days, also none", async () => {
    const settings = async (set: Record<string, string>) =>
      readConfig(configOf(await render("bundled", set), "berth-deployer"), planFields).planBackupDays;
    expect(await settings({})).toEqual({});
    expect(await settings({ "billing.backupDays": '{"free":0,"team":30}' })).toEqual({ free: 0, team: 30 });
    for (const wrong of ["[]", '{"gold":1}', '{"team":-1}', '{"team":1.5}', '{"team":"7"}'])
      expect(() => readConfig({ PLAN_BACKUP_DAYS: wrong }, planFields)).toThrow("by plan (free, pro");
  });

  test("a plan may have a largest volume, for every process that enforces plans", async () => {
    const settings = async (set: Record<string, string>, name: string) =>
      readConfig(configOf(await render("bundled", set), name), planFields).planStorage;
    expect(await settings({}, "berth-deployer")).toEqual({});
    for (const name of ["berth-deployer", "berth-identity", "berth-billing"])
      expect(await settings({ "billing.largestStorage": '{"free":5}' }, name)).toEqual({ free: 5 });
    for (const wrong of ["[]", '{"gold":1}', '{"team":0}', '{"team":1.5}', '{"team":"7"}'])
      expect(() => readConfig({ PLAN_STORAGE: wrong }, planFields)).toThrow("by plan (free, pro");
  });

  test("servers of addons may move to images of their versions, and stay where the operator wants that", async () => {
    const settings = async (set: Record<string, string>) =>
      patchImages(
        readConfig(configOf(await render("bundled", set), "berth-deployer"), kubernetesAddonFields),
      );
    const { postgres, redis } = await settings({});
    expect([postgres.length, redis.length]).toEqual([1, 1]);
    const earlier = { "apps.addons.earlierImages": '{"postgres":["postgres:17.7"]}' };
    expect(await settings(earlier)).toEqual({ postgres: [...postgres, "postgres:17.7"], redis });
    expect(await settings({ "apps.addons.patches": "false" })).toEqual({ postgres: [], redis: [] });
  });

  test("addons have poolers where the operator names an image for them", async () => {
    const image = async (set: Record<string, string>) =>
      kubernetesAddonFields.addonPoolerImage.parse(
        configOf(await render("bundled", set), "berth-deployer").ADDON_POOLER_IMAGE,
      );
    expect(await image({})).toBeUndefined();
    expect(await image({ "apps.addons.poolerImage": '"mirror.test/pgbouncer:1"' })).toBe(
      "mirror.test/pgbouncer:1",
    );
  });

  test("every value is described, where an editor shows it", async () => {
    type Schema = { description?: string; properties?: Record<string, Schema>; items?: Schema };
    const text = await readFile(join(chartFolder, "values.schema.json"), "utf8");
    const { $defs, ...schema } = JSON.parse(text) as Schema & { $defs: Record<string, Schema> };
    const undescribed = ({ properties = {}, items }: Schema, path: string): string[] => [
      ...Object.entries(properties).flatMap(([name, value]) => [
        ...(/^[^\n]{5,200}\.$/.test(value.description ?? "") ? [] : [`${path}.${name}`]),
        ...undescribed(value, `${path}.${name}`),
      ]),
      ...(items ? undescribed(items, `${path}[]`) : []),
    ];
    const all = Object.entries({ ...$defs, "": schema }).flatMap(([name, one]) => undescribed(one, name));
    expect(all).toEqual([]);
  });

  test("neither apps nor builds reach what a cloud answers its machines with", async () => {
    const manifests = await render("bundled");
    const clouds = ["168.63.129.16/32", "169.254.0.0/16", "192.0.0.0/24", "100.64.0.0/10"];
    const { appsEgressExcept } = kubernetesFields;
    expect(appsEgressExcept.parse(undefined)).toEqual(expect.arrayContaining(clouds));
    const apps = appsEgressExcept.parse(configOf(manifests, "berth-deployer").APPS_EGRESS_EXCEPT);
    expect(apps).toEqual(expect.arrayContaining(clouds));
    const blocks = ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy").flatMap(({ spec }) =>
      (spec!.egress ?? []).flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock ?? [])),
    );
    const open = blocks.filter(({ cidr }) => cidr === "0.0.0.0/0");
    expect(open.length).toBeGreaterThan(2);
    for (const { except } of open) expect(except).toEqual(expect.arrayContaining(clouds));
    for (const cloud of clouds) expect(isPublicAddress(cloud.split("/")[0]!)).toBe(false);
  });

  test("what is missing is told at once, in sentences", async () => {
    const failure = await helm("template", chartFolder, "--kube-version", "1.36.0").catch(String);
    for (const name of [
      "image.repository",
      "builds.image.repository",
      "publicUrl",
      "apps.domain",
      "owner.email",
    ])
      expect(failure).toMatch(new RegExp(`- ${name}: [^.]+\\.`));
  });

  test.each([
    ["a member that does not exist", { "gateway.replicas": "2" }, "'gateway' not allowed"],
    ["a member misspelled deep inside", { "database.server.storage.sise": '"1Gi"' }, "'sise' not allowed"],
    ["a process that does not exist", { "processes.identiy": "{}" }, "there is no such process"],
    ["no replica", { "processes.identity.replicas": "0" }, "minimum"],
    ["a text for a number", { "database.port": '"5432"' }, "want integer"],
    ["a word that is none of the choices", { logLevel: '"loud"' }, "must be one of"],
    ["an origin with a path", { publicUrl: '"https://example.com/berth"' }, "/publicUrl"],
    ["a domain in capitals", { "apps.domain": '"Example.com"' }, "/apps/domain"],
    ["a size that is none", { "nats.server.storage.size": '"much"' }, "/nats/server/storage/size"],
    ["a network without its width", { "networkPolicy.databaseCidrs": '["10.0.0.1"]' }, "databaseCidrs"],
    ["a password in a URL", { "nats.bundled": "false", "nats.url": '"nats://a:b@c:1"' }, "/nats/url"],
    ["a certificate that is none", { "builds.extraCaBundle": '"hello"' }, "/builds/extraCaBundle"],
    ["no server of one's own", { "database.bundled": "false" }, "database.host: name your PostgreSQL"],
    [
      "an object store without keys",
      { objectStore: '{"bundled":false,"endpoint":"https://s3.example.com","existingSecret":""}' },
      "objectStore.existingSecret",
    ],
    ["a registry without address", { "registry.bundled": "false" }, "registry.push: name your registry"],
    ["a time of day that there is not", { "registry.collectAt": '"24:00"' }, "collectAt"],
    ["a login for pulls alone", { "registry.pullSecret": '"my-pulls"' }, "registry.pullSecret: can only"],
    ["a NATS without address", { "nats.bundled": "false" }, "nats.url: name your NATS"],
    ["an address behind an ingress", { publicUrl: '"http://10.0.0.1"' }, "an ingress needs a host name"],
    [
      "an address of IPv6",
      { publicUrl: '"http://[fd00::1]:8080"' },
      "publicUrl: an ingress needs a host name",
    ],
    [
      "an address behind a route",
      {
        publicUrl: '"https://10.0.0.1"',
        "ingress.enabled": "false",
        httpRoute: '{"enabled":true,"parentRefs":[{"name":"a"}]}',
      },
      "publicUrl: an ingress needs a host name",
    ],
    ["a sender with quotes", { "smtp.from": '"\\"Berth\\" <berth@example.com>"' }, "/smtp/from"],
    ["a proxy with its port", { trustProxy: '["10.1.2.3:8080"]' }, "/trustProxy/0"],
    ["an address of domains with a port", { "apps.domains.addresses": '["10.1.2.3:443"]' }, "/addresses/0"],
    [
      "a setting of PostgreSQL that is none",
      { "database.server.settings": '{"a; b":"c"}' },
      "propertyName 'a; b'",
    ],
    ["a key that no Secret has", { "database.admin.passwordKey": '"a b"' }, "/passwordKey"],
    ["a host in capitals", { publicUrl: '"https://Berth.example.com"' }, "in lower case"],
    [
      "an address of the object store",
      { "objectStore.publicUrl": '"http://10.0.0.1:9000"' },
      "set objectStore.service.type",
    ],
    ["a cluster at every port", { "networkPolicy.apiServerPorts": "[]" }, "/networkPolicy/apiServerPorts"],
    ["DNS at every port", { "networkPolicy.dnsPorts": "[]" }, "/networkPolicy/dnsPorts"],
    ["mail at every port", { "networkPolicy.smtpPorts": "[]" }, "/networkPolicy/smtpPorts"],
    ["mail without a server", { "smtp.from": '"a@example.com"' }, "smtp.existingSecret: name the Secret"],
    ["a login to no Loki", { "logs.loki.existingSecret": '"my-loki"' }, "logs.loki.url: name"],
    ["a login in Loki's URL", { "logs.loki.url": '"http://me:secret@loki"' }, "/logs/loki/url"],
    ["mail from nobody", { "smtp.existingSecret": '"my-mail"' }, "smtp.from: set the sender"],
    ["a provider that there is not", { "oauth.provider": '"keycloak"' }, "must be one of"],
    ["an access token that outlasts an hour", { "oauth.accessTokenSeconds": "3601" }, "accessTokenSeconds"],
    ["a redirect host with a scheme", { "oauth.redirectHosts": '["https://a.example"]' }, "redirectHosts"],
    [
      "a resource elsewhere",
      { "oauth.resource": '"https://berth.example.community"' },
      "start with publicUrl",
    ],
    [
      "a redirect host beside none",
      { "oauth.redirectHosts": '["none","a.example"]' },
      "none cannot be combined",
    ],
    ["what an upgrade has kept of an older version", { oauth: "null" }, "--reset-then-reuse-values"],
    ["what one has kept from before billing", { billing: "null" }, "--reset-then-reuse-values"],
    ["a plan that there is not", { "billing.defaultTier": '"gold"' }, "must be one of"],
    ["a name at Stripe that is none", { "billing.installation": '"My Shop"' }, "does not match pattern"],
    ["a Hydra without address", { "oauth.provider": '"hydra"' }, "oauth.hydra.adminUrl: name the admin API"],
    [
      "a Hydra that nobody asks",
      { "oauth.hydra.adminUrl": '"http://hydra:4445"' },
      "oauth.provider: set it to hydra",
    ],
    [
      "a Hydra where Berth is",
      {
        "oauth.provider": '"hydra"',
        "oauth.hydra": '{"adminUrl":"http://hydra:4445","publicUrl":"https://berth.example.com/"}',
      },
      "oauth.hydra.publicUrl: this is the publicUrl of Berth",
    ],
    [
      "a database that admits fewer connections than the processes open",
      { "database.server.settings.max_connections": '"100"' },
      /max_connections: must be at least \d+, because the processes may open that many/,
    ],
    ["a certificate per something else", { "apps.ingress.tlsSecret": '"{host}-tls"' }, "tlsSecret"],
    ["no door", { "apps.ingress.enabled": "false" }, "apps need an Ingress or an HTTPRoute"],
    ["a Gateway without a name", { "apps.httpRoute.enabled": "true" }, "name the Gateway for the routes"],
    ["a Gateway of no namespace", { "apps.httpRoute.parentRefs": '[{"name":"a"}]' }, "namespace"],
    ["apps that nobody reaches", { "apps.ingressNamespaceLabels": "null" }, "apps.ingressFromCidrs: give"],
    ["a registry without its host", { "apps.allowedRegistries": '["library"]' }, "/apps/allowedRegistries"],
    ["a plan that there is not", { "billing.openPorts": '{"gold":[587]}' }, "gold"],
    ["a size that there is not", { "billing.largestSizes": '{"pro":"huge"}' }, "/billing/largestSizes/pro"],
    ["a volume that there is not", { "billing.largestStorage": '{"pro":0}' }, "/billing/largestStorage/pro"],
    ["days that there are not", { "billing.backupDays": '{"pro":-1}' }, "/billing/backupDays/pro"],
    ["digests perhaps", { "apps.imageDigests": '"maybe"' }, "/apps/imageDigests"],
    [
      "a ServiceMonitor that NetworkPolicies shut out",
      { "metrics.serviceMonitor.enabled": "true" },
      "metrics.from: say who may scrape",
    ],
    [
      "a port of nodes of a Service inside",
      { "service.nodePort": "30080" },
      "service.nodePort: a Service of type ClusterIP",
    ],
    [
      "another one of the object store",
      { "objectStore.service.nodePort": "30081" },
      "objectStore.service.nodePort: a Service of type ClusterIP",
    ],
    ["a port of nodes that there is not", { "service.nodePort": "8080" }, "/service/nodePort"],
    ["another one", { "registry.nodePort": "32768" }, "/registry/nodePort"],
    ["a third one", { "objectStore.service.nodePort": "29999" }, "/objectStore/service/nodePort"],
    ["an object of no kind", { extraObjects: '[{"metadata":{"name":"a"}}]' }, "/extraObjects"],
    ["a variable from nowhere", { "defaults.extraEnvFrom": '[{"name":"a"}]' }, "extraEnvFrom"],
    ["no DNS", { "networkPolicy.dnsPeers": "[]" }, "/networkPolicy/dnsPeers"],
    ["any DNS", { "networkPolicy.dnsPeers": "[{}]" }, "/networkPolicy/dnsPeers"],
    ["a port that there is not", { "apps.closedPorts": "[65536]" }, "/apps/closedPorts"],
    ["an end before the drain is over", { "defaults.drainSeconds": "25" }, "must be more than drainSeconds"],
    [
      "bounds the wrong way round",
      { "defaults.autoscaling": '{"enabled":true,"minReplicas":9}' },
      "minReplicas is greater",
    ],
    [
      "an autoscaler of the deployer",
      { "processes.deployer.autoscaling": '{"enabled":true}' },
      "set processes.deployer.replicas",
    ],
  ])("%s is refused", async (_what, set, sentence) => {
    await expect(render("bundled", set)).rejects.toThrow(sentence);
  });
});
