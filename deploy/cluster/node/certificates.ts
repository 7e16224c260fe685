import { generateKeyPairSync } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../commands.ts";
import { folders, network, nodeName } from "../settings.ts";

export const certificates = join(folders.node, "certificates");

const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256", "-days", "30"];
const serverNames = [
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
  "kubernetes.default.svc.cluster.local",
];

type Certificate = {
  subject: string;
  use: "serverAuth" | "clientAuth";
  names?: string[];
  /** Signed by itself, in place of the cluster's authority. */
  own?: boolean;
};

const wanted: Record<string, Certificate> = {
  apiserver: {
    subject: "/CN=kube-apiserver",
    use: "serverAuth",
    names: [...serverNames.map((name) => `DNS:${name}`), `IP:${network.apiService}`, `IP:${network.node}`],
  },
  "apiserver-kubelet": { subject: "/O=system:masters/CN=apiserver-kubelet", use: "clientAuth" },
  "kubelet-server": {
    subject: `/O=system:nodes/CN=system:node:${nodeName}`,
    use: "serverAuth",
    names: [`DNS:${nodeName}`, `IP:${network.node}`],
  },
  // CloudNativePG and its plugin for backups each trust the one certificate of the other. Go sends none to a server that names
  // no authority of it: that of each is itself.
  "barman-cloud-server": {
    subject: "/CN=barman-cloud",
    use: "serverAuth",
    names: ["DNS:barman-cloud"],
    own: true,
  },
  "barman-cloud-client": { subject: "/CN=barman-cloud-client", use: "clientAuth", own: true },
};

/** The subject of each user that gets a kubeconfig. */
const users: Record<string, string> = {
  admin: "/O=system:masters/CN=admin",
  "controller-manager": "/CN=system:kube-controller-manager",
  scheduler: "/CN=system:kube-scheduler",
  proxy: "/CN=system:kube-proxy",
  kubelet: `/O=system:nodes/CN=system:node:${nodeName}`,
};

/** Replaces all keys, certificates and kubeconfigs. They are valid for 30 days, and so is the cluster. */
export async function makeCertificates(): Promise<void> {
  await rm(certificates, { recursive: true, force: true });
  await mkdir(certificates, { recursive: true, mode: 0o700 });
  const kubeconfigs = join(folders.node, "kubeconfig");
  await mkdir(kubeconfigs, { recursive: true, mode: 0o700 });
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  await writeFile(join(certificates, "accounts.key"), privateKey, { mode: 0o600 });
  await writeFile(join(certificates, "accounts.pub"), publicKey);
  await openssl("ca", "/CN=berth-cluster", ["keyUsage=critical,keyCertSign,cRLSign,digitalSignature"], false);
  for (const [name, certificate] of Object.entries(wanted)) await issue(name, certificate);
  for (const [name, subject] of Object.entries(users)) {
    await issue(name, { subject, use: "clientAuth" });
    await writeFile(join(kubeconfigs, name), await kubeconfig(name), { mode: 0o600 });
  }
}

function issue(name: string, { subject, use, names, own = false }: Certificate): Promise<void> {
  const extensions = [
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    `extendedKeyUsage=${use}`,
    ...(names ? [`subjectAltName=${names.join(",")}`] : []),
  ];
  return openssl(name, subject, extensions, !own);
}

async function openssl(name: string, subject: string, extensions: string[], signed: boolean): Promise<void> {
  const authority = signed ? ["-CA", "ca.crt", "-CAkey", "ca.key"] : [];
  const output = ["-keyout", `${name}.key`, "-out", `${name}.crt`];
  const added = extensions.flatMap((extension) => ["-addext", extension]);
  await run("openssl", ["req", "-x509", ...key, "-subj", subject, ...authority, ...added, ...output], {
    cwd: certificates,
  });
}

/** Returns a kubeconfig that contains its certificates, so that it can be copied. */
async function kubeconfig(user: string): Promise<string> {
  const encoded = async (file: string) => (await readFile(join(certificates, file))).toString("base64");
  const name = "berth-cluster";
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [
      {
        name,
        cluster: {
          server: `https://${network.node}:6443`,
          "certificate-authority-data": await encoded("ca.crt"),
        },
      },
    ],
    users: [
      {
        name: user,
        user: {
          "client-certificate-data": await encoded(`${user}.crt`),
          "client-key-data": await encoded(`${user}.key`),
        },
      },
    ],
    contexts: [{ name, context: { cluster: name, user } }],
  });
}
