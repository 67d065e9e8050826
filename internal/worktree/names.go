package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
)

// The names that we use in a repository.
const (
	runBranches  = "bide/"      // + run
	itemBranches = "bide-item/" // + run / item / attempt
	privateRefs  = "refs/bide/" // + run / start, target, base, head, tip, tree, gone, took, final, left, removed, remade, pool/N/HEAD
)

var runID = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkRunID(id string) error {
	if !runID().MatchString(id) {
		return fmt.Errorf("run id %q: must be 1 to 64 letters, digits, '-' and '_', and begin with a letter or digit", id)
	}
	return nil
}

// maxEncoded is how long an item's name may get in a path or branch before it
// is cut and told apart by a digest.
const maxEncoded = 80

// ItemName is the name of an item in an Info and in a branch.
func ItemName(id string) string { return encode(id) }

// ItemID is the id of the item with a name; false if the name was cut, and does not have all
// of it.
func ItemID(name string) (id string, whole bool) {
	if name == "=" {
		return "", true
	}
	id, err := url.PathUnescape(strings.ReplaceAll(name, "=", "%"))
	return id, err == nil && encode(id) == name && !strings.Contains(name, ".")
}

// encode makes an item's id a safe name for one part of a path and of a branch. Different
// ids get different names, also where upper and lower case are the same. Lower-case
// letters, digits, '-' and '_' are kept; every other byte becomes "=" and two hexadecimal
// digits. A name that would be too long is cut, and a "." and the SHA-256 of the whole id
// are added; no other name has a ".".
func encode(id string) string {
	if id == "" {
		return "="
	}
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-' && i > 0, c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	name := b.String()
	if len(name) <= maxEncoded {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return name[:24] + "." + hex.EncodeToString(sum[:])
}

func runBranch(run string) string { return runBranches + run }

func itemBranch(run, item string, attempt int) string {
	return itemBranches + run + "/" + encode(item) + "/" + strconv.Itoa(attempt)
}

func privateRef(run, name string) string { return privateRefs + run + "/" + name }
