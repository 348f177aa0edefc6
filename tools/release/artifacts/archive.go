package artifacts

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
)

// packed is a file of an archive.
type packed struct {
	name    string
	content []byte
	mode    int64
}

// pack writes files to an archive without times and owners, which would differ each time.
func pack(name string, files []packed) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write an archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zipped := gzip.NewWriter(out)
	writer := tar.NewWriter(zipped)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := writer.Write(file.content); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return errors.Join(writer.Close(), zipped.Close())
}
