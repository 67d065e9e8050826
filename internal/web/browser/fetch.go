package browser

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
)

// The Chromium that is fetched where there is none: a build without a window
// that needs no more than the C library, from npm's registry, of which the
// content is known beforehand.
const (
	chromiumVersion = "153.0.0"
	chromiumPackage = "/@sparticuz/chromium/-/chromium-" + chromiumVersion + ".tgz"
	chromiumSHA512  = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
	registry        = "https://registry.npmjs.org" // npm_config_registry names another
)

// fetched is the directory of the Chromium that was fetched.
func fetched() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bide-chromium-"+chromiumVersion), nil
}

// Fetch gets Chromium (70 MB) into the user's cache if there is none, and gives
// the path of its program.
func Fetch(ctx context.Context) (path string, err error) {
	if path, err = Chromium(); err == nil {
		return path, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w; one can be fetched for linux/amd64 alone", err)
	}
	dir, err := fetched()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	into, err := os.MkdirTemp(filepath.Dir(dir), "bide-chromium-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(into)) }()
	archive := filepath.Join(into, "package.tgz")
	if err := download(ctx, archive); err != nil {
		return "", err
	}
	if err := unpack(archive, into); err != nil {
		return "", fmt.Errorf("unpacking Chromium: %w", err)
	}
	if err := os.Remove(archive); err != nil {
		return "", err
	}
	if err := os.Rename(into, dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, "chromium"), nil
}

// fonts is the configuration of the fonts of the fetched Chromium: those that came with
// it, which lack signs such as ✓, and those of the system.
const fonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir prefix="relative">fonts</dir><dir>/usr/share/fonts</dir></fontconfig>`

// fontsFile writes it where it is not there yet, and gives its path.
func fontsFile(dir string) (string, error) {
	sum := sha512.Sum512([]byte(fonts))
	path := filepath.Join(dir, fmt.Sprintf("fonts-%x.conf", sum[:4]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.CreateTemp(dir, "fonts-")
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(f, fonts)
	if err := errors.Join(err, f.Close(), os.Rename(f.Name(), path)); err != nil {
		return "", err
	}
	return path, nil
}

// download gets the package and refuses one that is not as it is known.
func download(ctx context.Context, file string) (err error) {
	from := cmp.Or(strings.TrimSuffix(os.Getenv("npm_config_registry"), "/"), registry)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from+chromiumPackage, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.URL, res.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	sum := sha512.New()
	_, err = io.Copy(io.MultiWriter(f, sum), res.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != chromiumSHA512 {
		return fmt.Errorf("%s is not what it was: its SHA-512 is %s, not %s", r.URL, got, chromiumSHA512)
	}
	return nil
}

// unpack takes the program, its libraries and its fonts out of the package.
func unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close() // it was read only: there is nothing to lose
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch name := strings.TrimPrefix(h.Name, "package/bin/"); name {
		case "chromium.br":
			err = write(filepath.Join(dir, "chromium"), brotli.NewReader(t))
		case "al2023.tar.br", "swiftshader.tar.br", "fonts.tar.br":
			err = untar(brotli.NewReader(t), dir)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// untar writes the files of an archive below a directory.
func untar(r io.Reader, dir string) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%q leads out of the archive", h.Name)
		}
		if err := write(filepath.Join(dir, h.Name), t); err != nil {
			return err
		}
	}
}

func write(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
