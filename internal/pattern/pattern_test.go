package pattern_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/pattern"
)

func TestLazyCompilesOnce(t *testing.T) {
	re := pattern.Lazy(`^a+$`)
	if !re().MatchString("aaa") || re().MatchString("ab") {
		t.Error("it is not the expression that was given")
	}
	if first, second := re(), re(); first != second {
		t.Error("two calls gave two expressions")
	}
}

func TestLazyIsLazy(t *testing.T) {
	wrong := pattern.Lazy(`(`) // no panic yet
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression was used without a panic")
		}
	}()
	wrong()
}
