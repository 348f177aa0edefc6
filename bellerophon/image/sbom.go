package image

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// WriteSBOM writes the bill of materials of a Go program, in the format CycloneDX 1.6 as JSON. It lists
// the modules that the linker recorded in the program, and so nothing that is not compiled in. [Write]
// attaches the same bytes to the image.
func WriteSBOM(program, file string) error {
	bill, err := readBill(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, bill, 0o644); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

// readBill returns the bill of materials of a program, encoded.
func readBill(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", program, err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	sum := sha256.Sum256(content)
	var bill bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&bill, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(billOf(info, hex.EncodeToString(sum[:])), cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	return bill.Bytes(), nil
}

// billOf returns the bill of a program. It has no time and no serial number, which would differ
// each time.
func billOf(info *debug.BuildInfo, sum string) *cyclonedx.BOM {
	program := componentOf(info.Path, info.Main.Version, cyclonedx.ComponentTypeApplication)
	program.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
	components := []cyclonedx.Component{componentOf("std", strings.TrimPrefix(info.GoVersion, "go"), cyclonedx.ComponentTypeLibrary)}
	for _, module := range info.Deps {
		if module.Replace != nil && module.Replace.Version != "" { // A folder of the checkout has no version.
			module = module.Replace
		}
		component := componentOf(module.Path, module.Version, cyclonedx.ComponentTypeLibrary)
		if module.Sum != "" {
			component.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: module.Sum}}
		}
		components = append(components, component)
	}
	var needed []string
	for _, component := range components {
		needed = append(needed, component.BOMRef)
	}
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Component: &program}
	bill.Components = &components
	bill.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &needed}}
	return bill
}

// componentOf describes a Go module. Its package URL is what databases of vulnerabilities know it by.
func componentOf(path, version string, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + path
	if version != "" && version != "(devel)" {
		url += "@" + version
	}
	return cyclonedx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}
