package artifacts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sums is the file with the sums of all files of a release, as `sha256sum` writes and checks it.
const Sums = "SHA256SUMS"

func writeSums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("sum the files of the release: %w", err)
	}
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return fmt.Errorf("sum the files of the release: %w", err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), entry.Name())
	}
	if err := os.WriteFile(filepath.Join(folder, Sums), []byte(sums.String()), 0o644); err != nil {
		return fmt.Errorf("sum the files of the release: %w", err)
	}
	return nil
}

// Compare returns an error for each file that two folders do not both have with the same bytes.
func Compare(first, second string) error {
	one, err := os.ReadDir(first)
	if err != nil {
		return fmt.Errorf("compare two builds: %w", err)
	}
	other, err := os.ReadDir(second)
	if err != nil {
		return fmt.Errorf("compare two builds: %w", err)
	}
	names := map[string]bool{}
	for _, entry := range append(one, other...) {
		names[entry.Name()] = true
	}
	var different []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, errA := os.ReadFile(filepath.Join(first, name))
		b, errB := os.ReadFile(filepath.Join(second, name))
		switch {
		case errA != nil || errB != nil:
			different = append(different, errors.Join(errA, errB))
		case !bytes.Equal(a, b):
			different = append(different, fmt.Errorf("%s differs between two builds: the build is not reproducible", name))
		}
	}
	return errors.Join(different...)
}
