package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionOptions are what version needs.
type versionOptions struct{ *streams }

func versionCmd(a *app) *cobra.Command {
	o := &versionOptions{&a.streams}
	return o.withJSON(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  `Prints the version, the commit it was built from where that is known, and the platform.`,
		Example: `  bide version
  bide version --json`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}, "print one JSON object")
}

func (o *versionOptions) run() error {
	v := builtFrom()
	if o.json {
		return printJSON(o.out, v)
	}
	commit := ""
	if v.Commit != "" {
		commit = " " + v.Commit[:min(12, len(v.Commit))]
	}
	return o.printf("bide %s%s (%s, %s)\n", v.Version, commit, v.Go, v.Platform)
}

// build is what a binary knows about itself.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`    // of that commit
	Changed  bool   `json:"changed,omitempty"` // there were changes after that commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func builtFrom() build {
	b := build{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Changed = s.Value == "true"
			}
		}
	}
	return b
}
