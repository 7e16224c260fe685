// Where a cluster is tested its S3 server is there, also on a machine that had none when `npm test` ran.
import "./adapter.test.ts";
