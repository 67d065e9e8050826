package cluster

import (
	"os"
	"testing"

	"github.com/bide-dev/bide/internal/proc"
)

func TestMain(m *testing.M) {
	if proc.CompanionMain() {
		return
	}
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "EMAIL": ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
