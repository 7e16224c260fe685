import { generateKeyPairSync, sign } from "node:crypto";

/** One value of ASN.1 in DER: its tag, the length, what it holds. */
function der(tag: number, ...content: Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  const { length } = body;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.from([tag, ...size, ...body]);
}

const sequence = (...content: Uint8Array[]) => der(0x30, ...content);
const integer = (value: number) => der(0x02, Buffer.from([value]));
const time = (date: Date) =>
  der(0x17, Buffer.from(`${date.toISOString().replace(/[-:T]/g, "").slice(2, 14)}Z`));

const OID = {
  commonName: der(0x06, Buffer.from("550403", "hex")),
  subjectAltName: der(0x06, Buffer.from("551d11", "hex")),
  ecdsaWithSha256: der(0x06, Buffer.from("2a8648ce3d040302", "hex")),
};

/**
 * Returns a key and a certificate of a server's names that it signed itself (RFC 5280), both in PEM, valid for a day.
 * Libraries that do this bring twenty packages along, and the program openssl is not on every machine.
 */
export function selfSignedCertificate(name: string, ...others: string[]): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const day = 24 * 3600_000;
  const algorithm = sequence(OID.ecdsaWithSha256);
  const who = sequence(der(0x31, sequence(OID.commonName, der(0x0c, Buffer.from(name)))));
  const names = sequence(...[name, ...others].map((one) => der(0x82, Buffer.from(one))));
  const toBeSigned = sequence(
    der(0xa0, integer(2)),
    integer(1),
    algorithm,
    who,
    sequence(time(new Date(Date.now() - day)), time(new Date(Date.now() + day))),
    who,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(sequence(OID.subjectAltName, der(0x04, names)))),
  );
  const signature = der(0x03, Buffer.from([0]), sign("sha256", toBeSigned, privateKey));
  const lines = sequence(toBeSigned, algorithm, signature).toString("base64").replace(/.{64}/g, "$&\n");
  return {
    key: String(privateKey.export({ type: "pkcs8", format: "pem" })),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}
