package worktree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/retry/driver"
	"pgregory.net/rapid"
)

// Every item has a name of its own, also where case is not told apart, and the
// name is good as one component of a path and of a branch.
func TestEncode(t *testing.T) {
	id := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-cA-C=._/ -]{0,12}`),
		rapid.StringMatching(`[ A]{25,200}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		x, y := encode(a), encode(b)
		if (a == b) != strings.EqualFold(x, y) {
			t.Fatalf("%q is %s, %q is %s", a, x, b, y)
		}
		if x == "" || len(x) > 100 || strings.HasPrefix(x, "-") || strings.HasPrefix(x, ".") || strings.HasSuffix(x, ".lock") || strings.HasSuffix(x, ".") {
			t.Fatalf("%q is %s", a, x)
		}
		if strings.Trim(x, "abcdefghijklmnopqrstuvwxyz0123456789-_=.") != "" || strings.Contains(x, "..") {
			t.Fatalf("%q is %s", a, x)
		}
	})
}

func TestBranchNames(t *testing.T) {
	equal(t, "plain", itemBranch("r1", "file-1", 2), "bide-item/r1/file-1/2")
	equal(t, "others", itemBranch("r1", "src/A.go", 1), "bide-item/r1/src=2f=41=2ego/1")
	equal(t, "empty", itemBranch("r1", "", 1), "bide-item/r1/=/1")
}

// TestClassOfAConflict: it is one of its own, whatever its resolver failed of.
func TestClassOfAConflict(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("merging: %w", &Conflict{Branch: "b", Err: errors.New("timed out")})
	if got := driver.Class(err); got != "conflict" {
		t.Errorf("the class is %q", got)
	}
}

// TestItemID: a name gives the id back, unless it was cut.
func TestItemID(t *testing.T) {
	for _, id := range []string{"", "a", "A b/c", "日本", "=", "a.b", "-x", "%41"} {
		if got, whole := ItemID(ItemName(id)); got != id || !whole {
			t.Errorf("%q: %q, %v", id, got, whole)
		}
	}
	for _, name := range []string{ItemName(strings.Repeat("x", 100)), "no=zz", "a.b", "A"} {
		if got, whole := ItemID(name); whole {
			t.Errorf("%q is all of %q", name, got)
		}
	}
}
