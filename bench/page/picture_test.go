package page

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// shrink encodes a picture with its 256 most frequent colours.
func shrink(content []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	counts := map[color.Color]int{}
	bounds := decoded.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[decoded.At(x, y)]++
		}
	}
	frequent := color.Palette(slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) }))
	frequent = frequent[:min(len(frequent), 256)]
	nearest := map[color.Color]uint8{}
	for of := range counts {
		nearest[of] = uint8(frequent.Index(of))
	}
	made := image.NewPaletted(bounds, frequent)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			made.SetColorIndex(x, y, nearest[decoded.At(x, y)])
		}
	}
	var encoded bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&encoded, made)
	return encoded.Bytes(), err
}
