// Command fetch sees to it that there is a Chromium for the tests: that of the
// system, or one that is fetched from npm's registry with a checksum that is
// known beforehand.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bide-dev/bide/internal/web/browser"
)

func main() {
	path, err := browser.Fetch(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "no browser:", err)
		os.Exit(1)
	}
	fmt.Println("the browser is", path)
}
