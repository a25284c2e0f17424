// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// A smart account (ERC-1271) with one owner: it approves the owner's signature, in 65 bytes or with a byte in
/// front, returns another value for another signer, and reverts on a malformed signature.
contract OwnedWallet {
    address private immutable owner;

    constructor(address initialOwner) {
        owner = initialOwner;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        bytes calldata own = signature.length == 66 ? signature[1:] : signature;
        require(own.length == 65, "no signature");
        address signer = ecrecover(hash, uint8(own[64]), bytes32(own[0:32]), bytes32(own[32:64]));
        return signer == owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// A smart account that redirects callers to its URL (EIP-3668).
contract OffchainWallet {
    error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callbackFunction, bytes extraData);

    string private url;

    constructor(string memory initialUrl) {
        url = initialUrl;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        string[] memory urls = new string[](1);
        urls[0] = url;
        revert OffchainLookup(address(this), urls, "", this.callback.selector, "");
    }

    function callback(bytes calldata, bytes calldata) external pure returns (bytes4) {
        return this.isValidSignature.selector;
    }
}

/// Answers every call with the same configured bytes.
contract Answers {
    bytes private answer;

    constructor(bytes memory initialAnswer) {
        answer = initialAnswer;
    }

    fallback(bytes calldata) external returns (bytes memory) {
        return answer;
    }
}
