package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// lastHere is the newest run of this directory that fits: of a command that does
// something, and was given no run. what says in words which runs fit. Where none fits it
// is the newest of this directory, of which the command says why not; where there is
// none at all, the error names the newest of another directory.
func (a *app) lastHere(cmd *cobra.Command, what string, fits func(runInfo) bool) (string, error) {
	st, err := a.openStore()
	if err != nil {
		return "", err
	}
	ctx := cmd.Context()
	here, err := os.Stat(".")
	if err != nil {
		return "", err
	}
	newest := ""
	for s, err := range st.RunsWhere(ctx, func(s journal.Summary) bool { return isOf(s, here) }) {
		if err != nil && s.ID == "" {
			return "", err
		}
		if err == nil && fits(infoOf(s, err)) {
			return s.ID, nil
		}
		if newest == "" {
			newest = s.ID
		}
	}
	if newest != "" {
		return newest, nil
	}
	for s, err := range st.Runs(ctx) {
		if err != nil && s.ID == "" {
			return "", err
		}
		if i := infoOf(s, err); err == nil && fits(i) {
			run := shortRun(s.ID)
			return "", usagef("there is no run of this directory%s; the newest of another one is %s (%s, in %s): %s %s", what, run, visible(i.title()), visible(i.Dir), cmd.CommandPath(), run+givenFlags(cmd))
		}
	}
	return "", usagef("there is no run%s; see bide runs", what)
}

// givenFlags are the flags that a command was given, to be pasted behind it.
func givenFlags(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "bool":
			b.WriteString(" --" + f.Name)
			if f.Value.String() != "true" {
				b.WriteString("=" + f.Value.String())
			}
		case "string":
			b.WriteString(" --" + f.Name + " " + diag.ShellWord(f.Value.String()))
		default: // of a list, each value would have a flag of its own
			b.WriteString(" --" + f.Name + " …")
		}
	})
	return b.String()
}

// isOf says whether a run is of a directory: it works there, or its file stands there.
func isOf(s journal.Summary, dir os.FileInfo) bool {
	for _, of := range []string{s.Dir, filepath.Dir(s.Path)} {
		if info, err := os.Stat(of); of != "" && err == nil && os.SameFile(info, dir) {
			return true
		}
	}
	return false
}
