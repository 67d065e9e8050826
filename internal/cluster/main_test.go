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
	os.Exit(m.Run())
}
