// Package cluster holds examples of workers on many machines, and reads them as the tools
// do that they are for: compose.yml of Docker Compose, and a chart of Helm. See
// docs/cluster.md.
package cluster
