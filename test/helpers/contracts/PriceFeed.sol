// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// A price feed as jobgate reads it (AggregatorV3Interface). Anyone can set its rounds.
contract PriceFeed {
    uint8 public decimals;
    string public constant description = "TOKEN / NATIVE";
    uint256 public constant version = 4;

    int256 private answer;
    uint256 private updatedAt;
    uint80 private roundId;
    bool private reverts;

    constructor(uint8 initialDecimals) {
        decimals = initialDecimals;
    }

    function setRound(int256 newAnswer, uint256 newUpdatedAt) external {
        answer = newAnswer;
        updatedAt = newUpdatedAt;
        roundId++;
    }

    function setDecimals(uint8 newDecimals) external {
        decimals = newDecimals;
    }

    function setReverts(bool newReverts) external {
        reverts = newReverts;
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        require(!reverts, "No data present");
        return (roundId, answer, updatedAt, updatedAt, roundId);
    }
}
