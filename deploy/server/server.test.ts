import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadYaml } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ciValues, helm, helmProgram } from "../../test/contracts/chart/render.ts";
import { digests, makeServerFolder, secret } from "./testing/server-folder.ts";

let it: Awaited<ReturnType<typeof makeServerFolder>>;
beforeEach(async () => {
  it = await makeServerFolder();
});
afterEach(() => it.remove());

const install = (...more: string[]) => it.server(["install", ...it.installation, ...more]);
const changing =
  /^(?:helm (?!history)|k3s (?!kubectl (?:get|wait))|systemctl (?!is-active)|apparmor_parser -r)/;

describe("an installation", () => {
  test("sets up Kubernetes, certificates and the chart, and says where to sign in, once", async () => {
    const { status, out, calls } = await install();
    expect([status, out]).toEqual([
      0,
      expect.stringContaining("https://berth.example.com/signin. Sign in as you@example.com"),
    ]);
    const done = calls
      .filter((call) => changing.test(call))
      .map((call) => call.split(" ").slice(0, 3).join(" "));
    expect(done.filter((call, index) => call !== done[index - 1])).toEqual([
      "helm pull oci://ghcr.io/berth-dev/charts/berth",
      `apparmor_parser -r ${it.at("root/etc/apparmor.d/berth-build")}`,
      "systemctl daemon-reload",
      "systemctl enable k3s",
      "systemctl restart k3s",
      "k3s kubectl apply",
      "k3s kubectl -n",
      "k3s kubectl apply",
      "helm upgrade --install",
    ]);
    expect(it.read("etc/systemd/system/k3s.service")).toContain("ExecStart=/usr/local/bin/k3s server");
    // What doctor and the runbooks tell operators to run; k3s is kubectl under that name.
    expect(realpathSync(it.at("root/usr/local/bin/kubectl"))).toBe(
      realpathSync(it.at("root/usr/local/bin/k3s")),
    );
    expect(it.read("var/lib/kubelet/seccomp/build.json")).toContain("SCMP_ACT");
    // AppArmor 3 knows neither.
    expect(it.read("etc/apparmor.d/berth-build")).not.toMatch(/^abi|userns,/m);
    expect(loadYaml(it.read("etc/berth/berth/issuer.yaml"))).toMatchObject({
      metadata: { name: "berth-acme" },
      spec: { acme: { email: "you@example.com" } },
    });
    for (const file of ["config", "values/1-server.yaml"])
      expect(it.mode(`etc/berth/berth/${file}`)).toBe(0o600);
  });

  test("that is repeated changes nothing", async () => {
    await install();
    const before = it.files();
    const { status, out, calls } = await install();
    expect([status, out]).toEqual([0, expect.stringContaining("   unchanged\n")]);
    expect(out).not.toContain("signin");
    expect(it.files()).toEqual(before);
    // What is applied again is the same.
    expect(
      calls.filter((call) => changing.test(call) && !/kubectl apply|rollout status|apparmor/.test(call)),
    ).toEqual([]);
  });

  test("whose k3s was not restarted after its settings changed restarts it", async () => {
    await install();
    // What it was started with: other settings, as before an upgrade.
    const change = () => it.write("var/lib/berth-server/k3s-started", "");
    change();
    const { calls } = await install();
    expect(calls).toContain("systemctl restart k3s");
    change();
    const cut = await it.server(["install", ...it.installation], {
      STOP_AT: String(calls.indexOf("systemctl daemon-reload") + 1),
    });
    expect(cut.calls.at(-1)).toBe("systemctl daemon-reload");
    expect((await install()).calls).toContain("systemctl restart k3s");
    expect((await install()).calls).not.toContain("systemctl restart k3s");
  });

  test("from a bundle loads the images into Kubernetes, and asks no registry", async () => {
    const { status, calls } = await install("--bundle", it.at("bundle.tar"));
    expect(status).toBe(0);
    expect(calls.filter((call) => / pull |^curl/.test(call))).toEqual([]);
    expect(readFileSync(it.at("state/images"), "utf8")).toBe(
      `ghcr.io/berth-dev/berth@${digests.berth}\nghcr.io/berth-dev/berth-builder@${digests["berth-builder"]}\n`,
    );
    expect(
      execFileSync("tar", ["xOf", it.at("state/imported.tar"), "./oci-layout"], { encoding: "utf8" }),
    ).toBe("berth-builder");
    expect(
      (await install("--bundle", it.at("bundle.tar"))).calls.filter((call) => call.includes("import")),
    ).toEqual([]);
  });

  test.each(["fail", "kill"])(
    "that is cut off at any step, and repeated, ends as one that was not (%s)",
    async (STOP_BY) => {
      const whole = await install("--bundle", it.at("bundle.tar"));
      const [files, steps] = [it.files(), whole.calls.length];
      for (let step = 1 + (STOP_BY === "kill" ? 1 : 0); step < steps; step += 4) {
        it.remove();
        it = await makeServerFolder();
        const args = ["install", ...it.installation, "--bundle", it.at("bundle.tar")];
        await it.server(args, { STOP_AT: String(step), STOP_BY });
        const { status, out } = await it.server(args);
        expect([step, status, out]).toEqual([step, 0, expect.anything()]);
        expect(it.files()).toEqual(files);
        expect(readFileSync(it.at("state/release"), "utf8")).toContain("deployed");
      }
    },
    120_000,
  );

  test("that was cut off within helm is taken up again", async () => {
    writeFileSync(
      it.at("state/release"),
      '[{"revision":1,"status":"pending-install","description":"Initial install underway"}]',
    );
    const { status, calls } = await install();
    expect(status).toBe(0);
    const [removed, upgraded] = [
      "delete secret -l owner=helm,name=berth,status in (pending-install,",
      "helm upgrade",
    ].map((words) => calls.findIndex((call) => call.includes(words)));
    expect(removed).toBeGreaterThan(0);
    expect(upgraded).toBeGreaterThan(removed!);
  });

  test("on a dry run is shown, and writes and changes nothing", async () => {
    const before = it.files();
    const { status, out, calls } = await install("--bundle", it.at("bundle.tar"), "--dry-run");
    expect(status).toBe(0);
    for (const step of [
      "checks",
      "chart",
      "k3s",
      "images of the bundle",
      "cert-manager and its issuer",
      "Berth",
    ])
      expect(out).toContain(`== ${step}`);
    expect(out).toContain('| publicUrl: "https://berth.example.com"');
    expect(calls.filter((call) => changing.test(call))).toEqual([]);
    expect(it.files()).toEqual(before);
  });

  test("without helm fetches the pinned one, also to show a dry run, which leaves nothing", async () => {
    rmSync(it.at("bin/helm"));
    const before = it.files();
    const shown = await install("--dry-run");
    expect([shown.status, shown.out]).toEqual([
      0,
      expect.stringContaining("would run: helm upgrade --install"),
    ]);
    expect(it.files()).toEqual(before);
    expect((await install()).status).toBe(0);
    expect(it.mode("usr/local/bin/helm") & 0o100).toBe(0o100);
  });

  test("of another release keeps its own images on a full disk, and no longer those before", async () => {
    const earlier = `ghcr.io/berth-dev/berth@sha256:${"c".repeat(64)}`;
    writeFileSync(it.at("state/images"), `${earlier}\ndocker.io/library/nats:2\n`);
    const { calls } = await install("--bundle", it.at("bundle.tar"));
    const labels = calls
      .filter((call) => call.includes(" images label "))
      .map((call) => call.split(" images label ")[1]);
    expect(labels[0]).toBe(`${earlier} io.cri-containerd.pinned=`);
    expect(labels).toContain(`ghcr.io/berth-dev/berth@${digests.berth} io.cri-containerd.pinned=pinned`);
    expect(labels.join()).not.toContain("nats");
  });

  test("uses the cluster of a kubeconfig and its issuer, and leaves the server and cert-manager alone", async () => {
    writeFileSync(it.at("kubeconfig"), "");
    writeFileSync(it.at("bin/kubectl"), readFileSync(it.at("files/k3s")), { mode: 0o755 });
    const { status, calls } = await install(
      "--kubeconfig",
      it.at("kubeconfig"),
      "--issuer",
      "letsencrypt",
      "--skip",
      "dns",
    );
    expect(status).toBe(0);
    expect(calls.filter((call) => /^(?:systemctl|k3s|apparmor)/.test(call))).toEqual([]);
    expect(Object.keys(it.files()).filter((file) => /k3s|kubelet|apparmor/.test(file))).toEqual([]);
    expect(loadYaml(it.read("etc/berth/berth/values/3-issuer.yaml"))).toMatchObject({
      apps: { domains: { issuer: "letsencrypt" } },
    });
  });

  test("waits for no other one", async () => {
    const holder = spawnSync(
      "flock",
      ["-n", it.at("root/run/berth-server.lock"), it.script, "install", ...it.installation],
      {
        env: { PATH: `${it.at("bin")}:/usr/bin:/bin`, BERTH_ROOT: it.at("root"), STATE: it.at("state") },
        encoding: "utf8",
      },
    );
    expect([holder.status, holder.stderr]).toEqual([
      1,
      "berth-server: another berth-server is running: wait until it has finished.\n",
    ]);
  });
});

describe("nothing is changed", () => {
  const refused = async (args: string[], env: Record<string, string> = {}) => {
    const before = it.files();
    const { status, out, calls } = await it.server(args, env);
    expect([status, calls.filter((call) => changing.test(call))]).toEqual([1, []]);
    expect(it.files()).toEqual(before);
    expect(existsSync(it.at("root/pwned"))).toBe(false);
    return out;
  };

  test("by options that are not what they should be", async () => {
    for (const [option, value, said] of [
      ["--domain", "a;touch pwned", "--domain: give something like berth.example.com."],
      ["--domain", "$(touch pwned).example.com", "--domain: give something"],
      ["--domain", "berth.example.com\nx: y", "--domain: give something"],
      ["--domain", "localhost", "--domain: localhost is no host name"],
      ["--domain", "192.0.2.1", "--domain: 192.0.2.1 is no host name"],
      ["--domain", `${"a".repeat(64)}.example.com`, "is no host name"],
      ["--domain", "--yes", "--domain: give something"],
      ["--domain", "apps.example.com", "--apps-domain: apps need another domain"],
      ["--apps-domain", '"}, x: {', "--apps-domain: give something"],
      ["--apps-domain", "`id`.example.com", "--apps-domain: give something"],
      ["--email", "you@example.com & x", "--email: give something"],
      ["--email", "you", "--email: give something"],
      ["--email", "a@b@c", "--email: give something"],
      ["--name", "../berth", "--name: give something"],
      ["--name", "a".repeat(31), "--name: at most 30"],
      ["--name", "7berth", "the first is a letter"],
      ["--name", "berth-", "the last no dash"],
      ["--issuer", "a b", "--issuer: give something"],
      ["--acme-server", "https://x/|e id|", "--acme-server: give something"],
      ["--address", "1.2.3.4 -o /etc/passwd", "--address: give something"],
      ["--registry", "ghcr.io/you --insecure", "--registry: give something"],
      ["--bundle", "/nowhere/bundle.tar", "--bundle: there is no /nowhere/bundle.tar."],
      ["--values", "/nowhere.yaml", "--values: there is no /nowhere.yaml."],
      ["--kubeconfig", "/nowhere", "--kubeconfig: there is no /nowhere."],
      ["--nothing", "x", "--nothing: no such option."],
    ] as const)
      expect([value, await refused(["install", ...it.installation, option, value])]).toEqual([
        value,
        expect.stringContaining(said),
      ]);
    expect(await refused(["install", "--domain"])).toContain("--domain: its value is missing.");
    expect(await refused(["remove"])).toContain("remove: no such command.");
    expect(await refused(["upgrade"])).toContain("there is no installation berth on this server");
  });

  test("on a server that cannot run Berth, and each reason is printed", async () => {
    it.write("etc/os-release", 'ID=debian\nVERSION_ID="11"\n');
    it.write("proc/meminfo", "MemTotal:        2015000 kB\n");
    it.write("proc/cpuinfo", "processor\t: 0\n");
    it.write("proc/net/tcp6", "  sl\n   0: 00000000000000000000000000000000:01BB 0000:0000 0A 0\n");
    const out = await refused(["install", ...it.installation], { FREE_KB: "9000000", DNS: "203.0.113.9" });
    for (const reason of [
      "system: debian 11: Debian 12 or Ubuntu 22.04, or newer, is needed.",
      "memory: 1967 MiB of memory: 4 GB are needed.",
      "1 processor: 2 are needed.",
      "disk: 8 GiB are free in /var/lib: 30 are needed.",
      "ports: port 443 is taken",
      "dns: berth.example.com is at 203.0.113.9, which is not this server.",
    ])
      expect(out).toContain(reason);
    expect(await refused(["install", ...it.installation], { DNS: "" })).toContain(
      "any.apps.example.com has no address",
    );
  });

  test.each([
    ['ID=ubuntu\nVERSION_ID="20.04"\n', "ubuntu 20"],
    ["ID=fedora\nVERSION_ID=44\n", "fedora 44"],
    ["NAME=x\n", "Debian 12 or Ubuntu"],
  ])("on another system (%j)", async (release, said) => {
    it.write("etc/os-release", release);
    expect(await refused(["install", ...it.installation])).toContain(said);
  });

  test("where another one has set up k3s, or another Kubernetes", async () => {
    execFileSync("mkdir", ["-p", it.at("root/etc/systemd/system"), it.at("root/etc/kubernetes")]);
    it.write("etc/kubernetes/kubelet.conf", "");
    expect(await refused(["install", ...it.installation])).toContain("another Kubernetes is here");
    it.write("etc/systemd/system/k3s.service", "[Service]\n");
    expect(await refused(["install", ...it.installation])).toContain("k3s is here, but not by berth-server");
  });

  test("with programs that are not the pinned ones, or the chart of another release", async () => {
    writeFileSync(it.at("files/k3s"), "another\n");
    const { status, out } = await install();
    expect([status, out]).toEqual([
      1,
      expect.stringContaining("k3s.part is not k3s v1.36.4+k3s1: its sha256 must be"),
    ]);
    expect(existsSync(it.at("root/usr/local/bin/k3s"))).toBe(false);
    rmSync(it.at("root/var/lib/berth-server"), { recursive: true });
    writeFileSync(it.at("bundle.tar"), "");
    expect((await install("--bundle", it.at("bundle.tar"))).out).toContain("is not the bundle of");
    execFileSync("sed", ["-i", 's/^CHART_SHA256=.*/CHART_SHA256="0"/', it.script]);
    expect((await install()).out).toContain("this is not the chart of release");
  });

  test("by a script that is not of a release", () => {
    const { status, stderr } = spawnSync(join(import.meta.dirname, "berth-server"), ["install"], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, BERTH_ROOT: it.at("root") },
    });
    expect([status, stderr]).toEqual([1, expect.stringContaining("this berth-server is not of a release")]);
  });
});

describe("afterwards", () => {
  beforeEach(async () => {
    expect((await install()).status).toBe(0);
  });

  test("an upgrade needs no options, and takes the settings and values that were given", async () => {
    writeFileSync(it.at("own.yaml"), "smtp: {from: berth@example.com}\n");
    const { status, calls } = await it.server([
      "upgrade",
      "--values",
      it.at("own.yaml"),
      "--files",
      it.at("files"),
    ]);
    expect(status).toBe(0);
    expect(calls.find((call) => call.startsWith("helm upgrade"))).toMatch(
      /values\/1-server\.yaml -f \S*2-k3s\.yaml -f \S*3-issuer\.yaml -f \S*5-own\.yaml/,
    );
    expect((await it.server(["upgrade"])).out).toContain("unchanged");
  });

  test("backups are set up and made, and a new server restores the newest one", async () => {
    writeFileSync(it.at("s3.env"), `access-key=me\nsecret-key=${secret}\n`);
    const setup = [
      "--endpoint",
      "https://s3.example.com",
      "--bucket",
      "berth-backups",
      "--keys",
      it.at("s3.env"),
    ];
    const made = await it.server(["backup", ...setup]);
    expect([made.status, made.out]).toEqual([0, expect.stringContaining("Keep a copy of")]);
    expect(
      made.calls.some((call) => /create job berth-backup-\d+ --from=cronjob\/berth-backup$/.test(call)),
    ).toBe(true);
    expect(it.mode("etc/berth/berth/keys.yaml")).toBe(0o600);
    expect(it.read("etc/berth/berth/keys.yaml")).not.toContain("uid");
    // A backup whose keys cannot be read keeps those of the one before.
    expect((await it.server(["backup"], { KEYS_FAIL: "yes" })).status).toBe(1);
    // A new server's password of the owner would be none that the data knows.
    expect(it.read("etc/berth/berth/keys.yaml")).toMatch(/berth-keys.*\n---\n.*berth-owner/s);
    // A new server has only the folder.
    for (const file of ["release", "revision", "active"]) rmSync(it.at("state", file));
    for (const path of ["usr/local/bin/k3s", "var/lib/berth-server", "etc/systemd", "etc/rancher"])
      rmSync(it.at("root", path), { recursive: true });
    const other = await it.server(["restore", "--yes", "--files", it.at("files"), "--name", "other"]);
    expect(other.out).toContain("there is no installation other on this server");
    const restored = await it.server(
      ["restore", "--files", it.at("files"), "--backup", "2027-01-31T03-00-00Z"],
      {},
      "berth.example.com\n",
    );
    expect([restored.status, restored.out]).toEqual([0, expect.stringContaining("== restore")]);
    const order = [
      `kubectl apply -f ${it.at("root/etc/berth/berth/keys.yaml")}`,
      "helm upgrade",
      "--replicas=0",
      "create job berth-restore-",
      "--replicas=1",
    ].map((words) => restored.calls.findIndex((call) => call.includes(words)));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(order).not.toContain(-1);
    expect(it.read("etc/berth/berth/values/4-backup.yaml")).toContain('restoreFrom: "2027-01-31T03-00-00Z"');
    for (const { calls, out } of [made, restored]) expect(`${calls.join("\n")}${out}`).not.toContain(secret);
  });

  test("a backup that fails says so, and a bucket that breaks out of YAML is refused", async () => {
    writeFileSync(it.at("s3.env"), "access-key=me\n");
    const setup = (bucket: string) => [
      "backup",
      "--endpoint",
      "https://s3.example.com",
      "--bucket",
      bucket,
      "--keys",
      it.at("s3.env"),
    ];
    expect((await it.server(setup('x"}'))).out).toContain("--bucket: give something like");
    expect((await it.server(["backup"])).out).toContain("backups are not set up");
    const failed = await it.server(setup("berth"), { JOB: "FailureTarget Failed" });
    expect([failed.status, failed.out]).toEqual([
      1,
      expect.stringContaining("the backup failed: kubectl -n berth logs job/berth-backup-"),
    ]);
  });

  test("doctor prints what is wrong, and the next command", async () => {
    const well = await it.server(["doctor"]);
    expect([well.status, well.out]).toEqual([0, expect.stringMatching(/^(?:[a-z]+: fine\n){9}$/)]);
    const ill = await it.server(["doctor"], {
      NODE: "node1 DiskPressure Ready",
      PODS: "berth-gateway-1 Running false",
      CURL_FAILS: "404",
      FREE_KB: "1",
      FULL: "99",
      DNS: "",
    });
    expect(ill.status).toBe(1);
    for (const said of [
      "node node1: DiskPressure Ready. Next: ",
      "berth-gateway-1 is not ready. Next: kubectl -n berth describe pod berth-gateway-1",
      "answer: curl: (22) 404. Next: ",
      "disk: 0 GiB are free in /var/lib: 5 are needed. 99 % are in use, most by /var/",
      "has no address",
    ])
      expect(ill.out).toContain(said);
  });

  test("doctor names what uses a disk that fills up and memory that runs short, before either is gone", async () => {
    it.write("proc/meminfo", "MemTotal:        4015000 kB\nMemAvailable:    215000 kB\n");
    const volume = "var/lib/rancher/k3s/storage/pvc-1_berth_data-berth-registry-0";
    mkdirSync(it.at("root", volume), { recursive: true });
    it.write(`${volume}/blob`, "x".repeat(20_000_000));
    const { status, out } = await it.server(["doctor"], { FULL: "86" });
    expect(status).toBe(1);
    expect(out).toMatch(
      /^disk: 86 % are in use, most by \/var\/lib\/rancher\/k3s\/storage\/pvc-1_berth_data-berth-registry-0 \(0\.0 GiB\).*\. Next: /m,
    );
    expect(out).toMatch(
      /^memory: 209 of 3920 MiB are available, most is used by \S+ \(\d+ MiB\).* Next: kubectl top pods/m,
    );
  });

  test("uninstall asks, keeps the data, and deletes it with --data", async () => {
    const wrong = await it.server(["uninstall", "--data"], {}, "yes\n");
    expect([wrong.status, wrong.out]).toEqual([
      1,
      expect.stringContaining("This removes Berth at berth.example.com, its data, all apps and their data."),
    ]);
    expect(wrong.calls.filter((call) => changing.test(call))).toEqual([]);
    const kept = await it.server(["uninstall"], {}, "berth.example.com\n");
    expect([kept.status, kept.calls.filter((call) => call.includes("delete"))]).toEqual([0, []]);
    const gone = await it.server(["uninstall", "--data", "--yes"]);
    expect(gone.calls).toContain("k3s kubectl delete namespace -l berth.dev/installation=berth-builds");
    expect(existsSync(it.at("root/etc/berth/berth"))).toBe(false);
  });

  test("password prints what the owner signs in with", async () => {
    expect((await it.server(["password"])).out).toBe("hunter2\n");
  });

  if (!helmProgram) console.log("The values of a server are not rendered: there is no helm.");
  test.skipIf(!helmProgram)("the chart takes the values that were written", async () => {
    const values = ["1-server", "2-k3s", "3-issuer"].flatMap((file) => [
      "-f",
      it.at("root/etc/berth/berth/values", `${file}.yaml`),
    ]);
    const chart = join(import.meta.dirname, "../../helm/berth");
    const rendered = await helm(
      "template",
      "berth",
      chart,
      "--kube-version",
      "1.36.0",
      "-f",
      ciValues("bundled"),
      ...values,
    );
    expect(rendered).toContain("host: objects.apps.example.com");
    expect(rendered).toContain("cert-manager.io/cluster-issuer: berth-acme");
    expect(rendered).toContain('ingressClassName: "traefik"');
    expect(rendered).toMatch(/BUILDER_RESOURCES: .*"cpu":"1000m".*"memory":"980Mi"/);
    expect(rendered).not.toMatch(/replicas: 2/);
  });
});

const shellcheck = spawnSync("shellcheck", ["--version"]).status === 0;
if (!shellcheck) console.log("berth-server is not checked: there is no shellcheck (Debian has it).");
test.skipIf(!shellcheck)("shellcheck finds nothing in berth-server", () => {
  const { stdout } = spawnSync("shellcheck", [join(import.meta.dirname, "berth-server")], {
    encoding: "utf8",
  });
  expect(stdout).toBe("");
});

test("it is short enough to be read", () => {
  expect(
    readFileSync(join(import.meta.dirname, "berth-server"), "utf8").split("\n").length - 1,
  ).toBeLessThanOrEqual(500);
});
