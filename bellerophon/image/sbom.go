package image

import (
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
// the modules that the linker recorded in the program, and so nothing that is not compiled in.
func WriteSBOM(program, file string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", program, err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	sum := sha256.Sum256(content)
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	defer out.Close()
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(billOf(info, hex.EncodeToString(sum[:])), cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return out.Close()
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
