package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// programs is where the programs of images are.
	programs = "github.com/bellerophon-io/bellerophon/bellerophon/"
	// user is the user of all pods of Bellerophon.
	user = "65532:65532"
)

// Program is a program with an image of its own.
type Program struct {
	// Image is the name and tag that the charts and the kinds of Bellerophon give to the image.
	Image string

	file      string   // in the image
	folder    string   // of the source, if the program is the user's
	title     string   // the image's label
	arguments []string // of a container that gives none
}

var (
	// Operator is the operator of all kinds.
	Operator = Program{Image: "bellerophon-io/bellerophon:v1", file: "bellerophon-operator", title: "Bellerophon operator"}

	// Server is the replicated key-value store. Without arguments it is a server of a BellerophonSimple: a member without
	// a volume, which waits to be let into a cluster.
	Server = Program{
		Image: "bellerophon-io/bellerophon-server:v1", file: "bellerophon-server", title: "Bellerophon key-value store",
		arguments: []string{"server", "--data=/tmp/member", "--listen=:8080"},
	}
)

// Write writes an image to an archive that Docker, containerd and Podman load. built is the file of the static
// program for Linux. The program's bill of materials is attached to the image. Write returns the digest of the
// image's configuration, which is the ID of the loaded image.
func (p Program) Write(built, imageName, archive string) (id string, err error) {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return "", fmt.Errorf("name of the image: %w", err)
	}
	processor, err := checkStatic(built)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(built)
	if err != nil {
		return "", fmt.Errorf("read the program: %w", err)
	}
	made, err := p.imageOf(content, processor)
	if err != nil {
		return "", fmt.Errorf("make the image %s: %w", imageName, err)
	}
	digest, err := made.ConfigName()
	if err != nil {
		return "", fmt.Errorf("make the image %s: %w", imageName, err)
	}
	bill, err := readBill(built)
	if err != nil {
		return "", err
	}
	attached, err := attach(bill, made)
	if err != nil {
		return "", fmt.Errorf("attach the bill of materials to the image %s: %w", imageName, err)
	}
	if err := writeArchive(archive, tag, made, attached); err != nil {
		return "", fmt.Errorf("write the image: %w", err)
	}
	return digest.String(), nil
}

// imageOf returns an image whose only file is the program. It has no time of its creation, which
// would differ each time.
func (p Program) imageOf(program []byte, processor string) (v1.Image, error) {
	layer, err := layerOf(p.file, program)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", processor
	config.Config.User = user
	config.Config.Entrypoint = []string{"/" + p.file}
	config.Config.Cmd = p.arguments
	config.Config.Labels = map[string]string{"org.opencontainers.image.title": p.title}
	return mutate.ConfigFile(image, config)
}

func layerOf(file string, program []byte) (v1.Layer, error) {
	var files bytes.Buffer
	writer := tar.NewWriter(&files)
	// No time, and root as the owner: the program cannot change itself.
	header := &tar.Header{Name: file, Mode: 0o555, Size: int64(len(program)), Format: tar.FormatUSTAR}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(program); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching) // Its digest, its size and its content are asked for.
}

// processors are the processors that images are made for, by the names that Go and OCI give them.
var processors = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// checkStatic returns the processor of a program, or an error if it cannot run in an image without other files.
func checkStatic(program string) (processor string, err error) {
	file, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("%s is not a program for Linux: %w", program, err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s needs a dynamic linker, which the image has not; build it with CGO_ENABLED=0", program)
		}
	}
	processor, known := processors[file.Machine]
	if !known {
		return "", fmt.Errorf("%s is for the processor %s; images are for amd64 and arm64", program, file.Machine)
	}
	return processor, nil
}
