import { optionalText, text, url } from "../../../kit/process/config.ts";

/** The object store of a cluster. */
export const s3Fields = {
  /** Where the platform and its builds reach the store. */
  s3Endpoint: url("S3_ENDPOINT", ["http", "https"]),
  /** Where users reach it, when that is another address. */
  s3PublicEndpoint: optionalText("S3_PUBLIC_ENDPOINT"),
  s3Bucket: text("S3_BUCKET", "berth"),
  s3AccessKey: text("S3_ACCESS_KEY"),
  s3SecretKey: text("S3_SECRET_KEY"),
  s3Region: text("S3_REGION", "us-east-1"),
};
