package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/crashtest"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/proc"
)

// partVar is the variable that says which part the test binary plays when a test starts it.
// Without it, the binary runs the tests.
const partVar = "BIDE_TEST_PART"

// parts are the programs that the test binary can be, by the value of
// partVar. Test files add theirs in init.
var parts = map[string]func() int{
	"bide": func() int { return cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr) },
}

func TestMain(m *testing.M) {
	crashtest.Launch()
	if proc.CompanionMain() {
		return
	}
	if filepath.Base(os.Args[0]) == "claude" {
		os.Exit(standIn())
	}
	if play, ok := parts[os.Getenv(partVar)]; ok {
		if err := os.Unsetenv(partVar); err != nil {
			os.Exit(2)
		}
		os.Exit(play())
	}
	engine.NoCompanion = true // in this process; the processes that are killed are others
	status := m.Run()
	if chaos() > 0 {
		fmt.Fprintf(os.Stderr, "%s; BIDE_CHAOS_SEED=%d\n", tollLine(), chaosSeed())
	}
	if err := dropRepo(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}
