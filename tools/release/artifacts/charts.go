package artifacts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// charts packages each chart as `helm package` does. Its files have the time of the commit, and the chart has the
// version of the release.
func (m *maker) charts(ctx context.Context) error {
	for _, name := range []string{"bellerophon", "bellerophon-operator"} {
		if err := m.chart(ctx, name); err != nil {
			return fmt.Errorf("package the chart %s: %w", name, err)
		}
	}
	return nil
}

func (m *maker) chart(ctx context.Context, name string) error {
	folder := filepath.Join("charts", name)
	names, err := m.source.Files(ctx, folder)
	if err != nil {
		return err
	}
	var files []*archive.BufferedFile
	for _, each := range names {
		content, err := os.ReadFile(filepath.Join(m.source.Root, folder, each))
		if err != nil {
			return err
		}
		files = append(files, &archive.BufferedFile{Name: filepath.ToSlash(each), ModTime: m.at, Data: content})
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return err
	}
	loaded.Metadata.Version = strings.TrimPrefix(m.version, "v")
	_, err = chartutil.Save(loaded, m.out)
	return err
}
