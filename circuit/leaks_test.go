package circuit_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
