package contender

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// identify sets the identity of a program.
func (p *Program) identify() error {
	files, err := hashOf(p.path)
	if err != nil {
		return fmt.Errorf("hash %s: %w", p.path, err)
	}
	command := p.recipe.command("", Settings{})
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", files, command.Args, command.Env))
	p.Identity = hex.EncodeToString(sum[:8])
	return nil
}

// Passed reports whether exactly this program has passed a suite. That is so if this user called
// NotePassed for the same version of the suite and a program with the same name, files and
// arguments.
func (p *Program) Passed(suite string) (bool, error) {
	note, err := p.note(suite)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(note)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether %s has passed: %w", p.Name, err)
	}
	return true, nil
}

// NotePassed notes in the user's cache directory that exactly this program has passed a version
// of a suite.
func (p *Program) NotePassed(suite string) error {
	note, err := p.note(suite)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(note), 0o755); err != nil {
		return fmt.Errorf("note that %s has passed: %w", p.Name, err)
	}
	text := fmt.Appendf(nil, "%s passed the suite %s at %s\n", p.Version, suite, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(note, text, 0o644); err != nil {
		return fmt.Errorf("note that %s has passed: %w", p.Name, err)
	}
	return nil
}

// note returns the path of the file that exists if the program has passed.
func (p *Program) note(suite string) (string, error) {
	cache, err := cacheDirectory()
	return filepath.Join(cache, "passed", p.Name+"-"+p.Identity+"-"+suite), err
}
