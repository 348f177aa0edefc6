package image

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// billType is the media type of a bill of materials in CycloneDX as JSON. Registries list what is
	// attached to an image by this type.
	billType types.MediaType = "application/vnd.cyclonedx+json"
	// emptyType is the media type of a configuration that says nothing, as OCI asks of an artifact.
	emptyType types.MediaType = "application/vnd.oci.empty.v1+json"
)

// attachment is a manifest with one file that belongs to an image. It implements
// [partial.CompressedImageCore], so that it is written as an image is.
type attachment struct {
	manifest []byte
	file     v1.Layer
}

// emptyConfig is the content of emptyType.
var emptyConfig = []byte("{}")

// attach returns an artifact with a bill of materials whose subject is an image.
func attach(bill []byte, subject v1.Image) (v1.Image, error) {
	described, err := partial.Descriptor(subject)
	if err != nil {
		return nil, err
	}
	of := v1.Descriptor{MediaType: described.MediaType, Size: described.Size, Digest: described.Digest}
	file := static.NewLayer(bill, billType)
	layer, err := partial.Descriptor(file)
	if err != nil {
		return nil, err
	}
	config, err := partial.Descriptor(static.NewLayer(emptyConfig, emptyType))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: string(billType),
		Config: *config, Layers: []v1.Descriptor{*layer}, Subject: &of,
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&attachment{manifest, file})
}

// MediaType implements partial.CompressedImageCore.
func (*attachment) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest implements partial.CompressedImageCore.
func (a *attachment) RawManifest() ([]byte, error) { return bytes.Clone(a.manifest), nil }

// RawConfigFile implements partial.CompressedImageCore.
func (*attachment) RawConfigFile() ([]byte, error) { return bytes.Clone(emptyConfig), nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a *attachment) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	is, err := a.file.Digest()
	if err == nil && is != digest {
		err = fmt.Errorf("the artifact has the file %v and no %v", is, digest)
	}
	return a.file, err
}
