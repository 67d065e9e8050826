// The tool that bundles the dashboard's scripts and style; see `make web`. It is
// a module of its own, so that nobody who uses bide has it.
module github.com/bide-dev/bide/internal/web/build

go 1.26.0

tool github.com/evanw/esbuild/cmd/esbuild

require (
	github.com/evanw/esbuild v0.28.2 // indirect
	golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect
)
