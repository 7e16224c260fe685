import { optionalText, text, url } from "../../../kit/process/config.ts";

/** The object store of a cluster. */
export const s3Fields = {
  /** The store's address for the platform and its builds. */
  s3Endpoint: url("S3_ENDPOINT", ["http", "https"]),
  /** The store's address for users, if it is another one. */
  s3PublicEndpoint: optionalText("S3_PUBLIC_ENDPOINT"),
  s3Bucket: text("S3_BUCKET", "berth"),
  s3AccessKey: text("S3_ACCESS_KEY"),
  s3SecretKey: text("S3_SECRET_KEY"),
  s3Region: text("S3_REGION", "us-east-1"),
};
